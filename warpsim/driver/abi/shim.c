/* libcuda.so.1 and libcudart.so: every entry point jumps through a table; Python fills each slot at the first call there.

   Compiled once for each library with LIBRARY ("cuda" or "cudart") and CALLS (the list of entry points, a file of lines
   CALL(number of 64-bit arguments, name)). In a Python process the interpreter that runs is used; elsewhere libpython is
   loaded: WARPSIM_LIBPYTHON, or PYTHON_LIBRARY as it was when this was compiled. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u;
enum {
#define CALL(n, name) AT_##name,
#include CALLS
#undef CALL
    INTERRUPT, /* behind the functions: the address of what interrupted one of them, */
    CLOSED,    /* the thread that is about to end Python: from then on, no other's calls go there, */
    INSIDE,    /* how many calls have gone there and not come back, */
    CURRENT,   /* the context that is current in that thread, */
    CALLER,    /* where the call comes from, */
    FILL,      /* and the function that fills the slot with a number */
    SLOTS,
    COUNT = INTERRUPT
};
static u table[SLOTS];
static const char *const names[] = {
#define CALL(n, name) #name,
#include CALLS
#undef CALL
};

static int failed; /* READY, or why no call ever goes to Python */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void);
static int (*initialized)(void), (*finalizing)(void);
static void *(*state_of_thread)(void), *(*save)(void), *(*type_of)(void *);
static int (*ensure)(void), (*call_later)(int (*)(void *), void *);
static void (*release)(int), (*release_object)(void *), (*raise_object)(void *, void *);
static void (*take_error)(void **, void **, void **), (*give_error)(void *, void *, void *);
static __thread int known;
enum { READY, FAILED, LATE };
static void leave(void) { __atomic_sub_fetch(&table[INSIDE], 1, __ATOMIC_SEQ_CST); }
static int enter(void) /* READY: the call goes to Python, and `leave` comes behind it */
{
    pthread_once(&once, begin);
    if (failed)
        return failed;
    __atomic_add_fetch(&table[INSIDE], 1, __ATOMIC_SEQ_CST);
    u closed = __atomic_load_n(&table[CLOSED], __ATOMIC_SEQ_CST);
    /* Python ends before the program, whose destructors come later and whose threads go on: Python would end those */
    if ((closed && closed != (u)pthread_self()) || !initialized() || (finalizing && finalizing())) {
        leave();
        return LATE;
    }
    if (!known) { /* threads of the program keep one state in Python: what is current in them stays so */
        known = 1;
        if (!state_of_thread()) {
            ensure();
            save();
        }
    }
    return READY;
}
static u text_or(const char *name, const char *text, u code) /* some functions give a text, and no status */
{
    static const char *const texts[] = {"cudaGetErrorString", "cudaGetErrorName", "nvrtcGetErrorString", "nvmlErrorString"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i]))
            return (u)(uintptr_t)text;
    return code;
}
static u put(u where, const void *value, size_t bytes)
{
    if (where)
        memcpy((void *)(uintptr_t)where, value, bytes);
    return !where; /* null is CUDA_ERROR_INVALID_VALUE */
}
static u late(const char *name, const u *arguments)
{ /* The GPU has ended with Python: what is given back has been, and all work is done. Contexts are current as before, and as
     the thread says. What needs the GPU is too late. */
    static const char *const done[] = {"Free",  "Destroy",      "Unload",          "Unregister",   "Release",     "Unmap",  "Detach",  "Synchronize",
                                       "Reset", "ProfilerStop", "cudaSetDevice",   "StreamQuery",  "EventQuery",  "EventRecord",
                                       "StreamWaitEvent",       "cudaGetLastError", "cudaPeekAtLastError"};
    static __thread u contexts[64];
    static __thread size_t top;
    const int zero = 0;
    const char *error = "CUDA_ERROR_DEINITIALIZED";
    if (!*contexts)
        *contexts = table[CURRENT];
    if (!strncmp(name, "cuCtxPushCurrent", 16) && top + 1 < sizeof contexts / sizeof *contexts) {
        contexts[++top] = arguments[1];
        return 0;
    }
    if (!strncmp(name, "cuCtxPopCurrent", 15)) {
        put(arguments[1], &contexts[top], sizeof *contexts);
        top -= top > 0;
        return 0;
    }
    if (!strcmp(name, "cuCtxSetCurrent")) {
        contexts[top] = arguments[1];
        return 0;
    }
    if (!strcmp(name, "cuCtxGetCurrent"))
        return put(arguments[1], &contexts[top], sizeof *contexts);
    if (!strcmp(name, "cudaGetDevice") || !strcmp(name, "cuCtxGetDevice"))
        return put(arguments[1], &zero, sizeof zero);
    if (!strcmp(name, "cuDevicePrimaryCtxGetState")) /* flags, and whether it is active */
        return put(arguments[2], &zero, sizeof zero) | put(arguments[3], &zero, sizeof zero);
    if (!strcmp(name, "cuGetErrorName") || !strcmp(name, "cuGetErrorString"))
        return put(arguments[2], &error, sizeof error);
    for (size_t i = 0; i < sizeof done / sizeof *done; i++)
        if (strstr(name, done[i]))
            return 0;
    return text_or(name, "the simulator has ended", 4);
}

typedef struct { int state; void *type, *value, *trace; } Held;
static Held hold(void)
{ /* destructors call while an exception is on its way; Python's code must neither see nor replace it */
    Held held = {ensure(), NULL, NULL, NULL};
    take_error(&held.type, &held.value, &held.trace);
    return held;
}
static int raise_interrupt(void *unused)
{
    u *slot = (u *)(uintptr_t)table[INTERRUPT];
    void *raised = (void *)(uintptr_t)*slot, *type;
    *slot = 0;
    if (!raised)
        return 0;
    raise_object(type = type_of(raised), raised);
    release_object(type);
    release_object(raised);
    return -1;
}
static u let_go(Held held, u result)
{
    give_error(held.type, held.value, held.trace);
    if (*(u *)(uintptr_t)table[INTERRUPT]) /* C cannot pass it on: it is raised once the call has returned to Python */
        call_later(raise_interrupt, NULL);
    release(held.state);
    return result;
}

static u function_at(int number)
{
    while (!table[number]) /* again if Ctrl-C came in between */
        ((void (*)(u))table[FILL])(number);
    return table[number];
}

enum { MOST = 16 }; /* arguments */
static u call(int at, u caller, const u *a) /* once for all functions: compiling it in each took most of the time */
{
    int found = enter();
    if (found == FAILED)
        return text_or(names[at], "the simulator did not start", 3);
    if (found == LATE)
        return late(names[at], a);
    Held held = hold();
    table[CALLER] = caller;
    u (*function)(u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, u) = /* it does not look at those that it does not have */
        (u(*)(u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, u))function_at(at);
    u result = let_go(held, function(a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16]));
    leave();
    return result;
}

#define P0 void
#define P1 u a
#define P2 P1, u b
#define P3 P2, u c
#define P4 P3, u d
#define P5 P4, u e
#define P6 P5, u f
#define P7 P6, u g
#define P8 P7, u h
#define P9 P8, u i
#define P10 P9, u j
#define P11 P10, u k
#define P12 P11, u l
#define P13 P12, u m
#define P14 P13, u n
#define P15 P14, u o
#define P16 P15, u p
#define A0
#define A1 a
#define A2 A1, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define A10 A9, j
#define A11 A10, k
#define A12 A11, l
#define A13 A12, m
#define A14 A13, n
#define A15 A14, o
#define A16 A15, p
#define EXPORT __attribute__((visibility("default")))
#define CALL(n, name) \
    EXPORT u name(P##n) { return call(AT_##name, (u)(uintptr_t)__builtin_return_address(0), (const u[1 + MOST]){0, A##n}); }
#include CALLS
#undef CALL

static const u stubs[] = {
#define CALL(n, name) (u)(uintptr_t)name,
#include CALLS
#undef CALL
};

#ifdef RUNTIME
/* Functions of the run time that take or give structures by value. */
#include <stddef.h>

typedef struct { void *ptr; size_t pitch, xsize, ysize; } Pitched;
typedef struct { size_t width, height, depth; } Extent;
typedef struct { int x, y, z, w, f; } Channel;

EXPORT int cudaMalloc3D(Pitched *where, Extent size)
{
    return (int)warpsimMalloc3D((u)(uintptr_t)where, size.width, size.height, size.depth);
}

EXPORT int cudaMalloc3DArray(void **array, const Channel *channels, Extent size, unsigned flags)
{
    return (int)warpsimMalloc3DArray((u)(uintptr_t)array, (u)(uintptr_t)channels, size.width, size.height, size.depth,
                                     flags);
}

EXPORT int cudaMallocMipmappedArray(void **array, const Channel *channels, Extent size, unsigned levels, unsigned flags)
{
    return (int)warpsimMallocMipmappedArray((u)(uintptr_t)array, (u)(uintptr_t)channels, size.width, size.height,
                                            size.depth, levels, flags);
}

EXPORT int cudaMemset3D(Pitched where, int value, Extent size)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, 0);
}

EXPORT int cudaMemset3DAsync(Pitched where, int value, Extent size, void *stream)
{
    return (int)warpsimMemset3D((u)(uintptr_t)where.ptr, where.pitch, where.ysize, (u)value, size.width, size.height,
                                size.depth, (u)(uintptr_t)stream);
}

EXPORT Channel cudaCreateChannelDesc(int x, int y, int z, int w, int f)
{
    Channel made = {x, y, z, w, f};
    return made;
}
#endif

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found && !failed) {
        fprintf(stderr, "warpsim: libpython has no %s\n", name);
        failed = 1;
    }
    return found;
}

static void *python(void)
{
    const char *path = getenv("WARPSIM_LIBPYTHON");
    void *library = dlopen(path && *path ? path : PYTHON_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        fprintf(stderr, "warpsim: cannot load Python: %s\n", dlerror());
    return library;
}

static void *library;
static void run(const char *code)
{
    int (*simple)(const char *) = (int (*)(const char *))symbol(library, "PyRun_SimpleString");
    if (failed)
        return;
    Held held = hold();
    if (simple(code))
        failed = 1;
    give_error(held.type, held.value, held.trace);
    release(held.state);
}

static void end(void)
{
    run("import warpsim.driver.abi.binding as _b; _b.finish()");
}

static void begin(void)
{
    int embedded = 0;
    int alone = !dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    library = alone ? python() : RTLD_DEFAULT;
    if (alone && !library && (failed = 1))
        return;
    initialized = (int (*)(void))symbol(library, "Py_IsInitialized");
    state_of_thread = (void *(*)(void))symbol(library, "PyGILState_GetThisThreadState");
    save = (void *(*)(void))symbol(library, "PyEval_SaveThread");
    ensure = (int (*)(void))symbol(library, "PyGILState_Ensure");
    release = (void (*)(int))symbol(library, "PyGILState_Release");
    take_error = (void (*)(void **, void **, void **))symbol(library, "PyErr_Fetch");
    give_error = (void (*)(void *, void *, void *))symbol(library, "PyErr_Restore");
    raise_object = (void (*)(void *, void *))symbol(library, "PyErr_SetObject");
    type_of = (void *(*)(void *))symbol(library, "PyObject_Type");
    release_object = (void (*)(void *))symbol(library, "Py_DecRef");
    call_later = (int (*)(int (*)(void *), void *))symbol(library, "Py_AddPendingCall");
    finalizing = (int (*)(void))dlsym(library, "Py_IsFinalizing");
    if (!finalizing)
        finalizing = (int (*)(void))dlsym(library, "_Py_IsFinalizing");
    const char *process = getenv("WARPSIM_PYTHON"); /* the one whose Python has begun: it is not begun again */
    if (!failed && !alone && !initialized() && process && atol(process) == (long)getpid())
        failed = LATE;
    if (!failed && !initialized()) {
        void (*initialize)(int) = (void (*)(int))symbol(library, "Py_InitializeEx");
        const char *home = getenv("WARPSIM_PYTHONHOME"), *old = getenv("PYTHONHOME");
        char *kept = old ? strdup(old) : NULL;
        if (home && *home)
            setenv("PYTHONHOME", home, 1);
        if (failed)
            return;
        initialize(0);
        save();
        if (kept)
            setenv("PYTHONHOME", kept, 1);
        else
            unsetenv("PYTHONHOME");
        free(kept);
        embedded = 1;
    }
    if (failed)
        return;
    char code[2048];
    snprintf(code, sizeof code,
             "def _warpsim():\n"
             " import os, sys\n"
             " from importlib.util import find_spec, module_from_spec, spec_from_file_location\n"
             " paths = [p for p in os.environ.get('WARPSIM_PATH', '').split(':') if p]\n"
             " more = [p for p in paths if p not in sys.path]\n"
             " if %d:\n"
             "  import gc\n"
             "  gc.set_threshold(200_000)\n" /* as `warpsim.cli`: hardly any of what a process that starts makes is garbage */
             "  sys.path[:0] = more\n"
             " elif not all(map(find_spec, ('numpy', 'ml_dtypes', 'attrs'))): sys.path += more\n"
             " if paths and 'warpsim' not in sys.modules:\n" /* this one, whatever the program's Python has */
             "  home = os.path.join(paths[0], 'warpsim')\n"
             "  spec = spec_from_file_location('warpsim', os.path.join(home, '__init__.py'),"
             " submodule_search_locations=[home])\n"
             "  sys.modules['warpsim'] = module_from_spec(spec)\n"
             "  spec.loader.exec_module(sys.modules['warpsim'])\n"
             " from warpsim.driver.abi import binding\n"
             " binding.start('%s', %llu, %llu, %llu, %d, %d)\n"
             "_warpsim()\n"
             "del _warpsim\n",
             embedded, LIBRARY, (unsigned long long)(uintptr_t)names, (unsigned long long)(uintptr_t)stubs,
             (unsigned long long)(uintptr_t)table, (int)COUNT, embedded);
    run(code);
    if (!failed && embedded)
        atexit(end);
    else if (failed)
        fprintf(stderr, "warpsim: the simulator did not start\n");
}
