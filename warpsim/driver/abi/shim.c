/* libcuda.so.1, libcudart.so and the others: every entry point (`entries.S`) jumps through a table; Python fills each slot at the
   first call there. Compiled once for all of them.

   In a Python process the interpreter that runs is used; elsewhere libpython is loaded: WARPSIM_LIBPYTHON, or PYTHON_LIBRARY as it
   was when this was compiled. */
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
    INTERRUPT, /* before the functions: the address of what interrupted one of them, */
    CLOSED,    /* the thread that is about to end Python: from then on, no other's calls go there, */
    INSIDE,    /* how many calls have gone there and not come back, */
    CURRENT,   /* the context that is current in that thread, */
    CALLER,    /* where the call comes from, */
    FILL,      /* and the function that fills the slot with a number */
    FIRST
};
_Static_assert(FIRST == 6, "entries.S has room for six");
#pragma GCC visibility push(hidden)
extern u table[];                              /* these, and a slot for each entry point */
extern const char names[], stubs[], library_name[]; /* the names, one behind the other; the entry points, each of 16 bytes */
extern const int count;
u answer(int at, u caller, const u *a, float x, float y);
#pragma GCC visibility pop

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
    static __thread int begun;
    const int zero = 0;
    const char *error = "CUDA_ERROR_DEINITIALIZED";
    if (!begun)
        *contexts = table[CURRENT];
    begun = 1;
    if (!strncmp(name, "cuCtxPushCurrent", 16) && top + 1 < sizeof contexts / sizeof *contexts) {
        contexts[++top] = arguments[0];
        return 0;
    }
    if (!strncmp(name, "cuCtxPopCurrent", 15)) {
        put(arguments[0], &contexts[top], sizeof *contexts);
        top -= top > 0;
        return 0;
    }
    if (!strcmp(name, "cuCtxSetCurrent")) {
        contexts[top] = arguments[0];
        return 0;
    }
    if (!strcmp(name, "cuCtxGetCurrent"))
        return put(arguments[0], &contexts[top], sizeof *contexts);
    if (!strcmp(name, "cudaGetDevice") || !strcmp(name, "cuCtxGetDevice"))
        return put(arguments[0], &zero, sizeof zero);
    if (!strcmp(name, "cuDevicePrimaryCtxGetState")) /* flags, and whether it is active */
        return put(arguments[1], &zero, sizeof zero) | put(arguments[2], &zero, sizeof zero);
    if (!strcmp(name, "cuGetErrorName") || !strcmp(name, "cuGetErrorString"))
        return put(arguments[1], &error, sizeof error);
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
    while (!table[FIRST + number]) /* again if Ctrl-C came in between */
        ((void (*)(u))table[FILL])((u)number);
    return table[FIRST + number];
}

static const char *name_of(int number)
{
    const char *name = names;
    while (number--)
        name += strlen(name) + 1;
    return name;
}

u answer(int at, u caller, const u *a, float x, float y) /* what an entry point does, given 16 words that may be arguments, and two
                                                            floats, which come in registers of their own */
{
    int found = enter();
    if (found == FAILED)
        return text_or(name_of(at), "the simulator did not start", 3);
    if (found == LATE)
        return late(name_of(at), a);
    Held held = hold();
    table[CALLER] = caller;
    u (*function)(u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, float, float) = /* it does not look at those that it does not have */
        (u(*)(u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, u, float, float))function_at(at);
    u result = let_go(held, function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], x, y));
    leave();
    return result;
}

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

static int version(void) /* the number at the end of the library's name; 0 if there is none */
{
    Dl_info here;
    const char *number = dladdr(table, &here) && here.dli_fname ? strrchr(here.dli_fname, '.') : NULL;
    return number ? atoi(number + 1) : 0;
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
             "  if 'OPENBLAS_NUM_THREADS' not in os.environ:\n"
             "   os.environ['OPENBLAS_NUM_THREADS'] = '1'\n" /* threads of NumPy's spin for 25 ms; */
             "   import numpy\n"
             "   del os.environ['OPENBLAS_NUM_THREADS']\n" /* the program, and those that it starts, may have one, too */
             " elif not all(map(find_spec, ('numpy', 'ml_dtypes', 'attrs'))): sys.path += more\n"
             " if paths and 'warpsim' not in sys.modules:\n" /* this one, whatever the program's Python has */
             "  home = os.path.join(paths[0], 'warpsim')\n"
             "  spec = spec_from_file_location('warpsim', os.path.join(home, '__init__.py'),"
             " submodule_search_locations=[home])\n"
             "  sys.modules['warpsim'] = module_from_spec(spec)\n"
             "  spec.loader.exec_module(sys.modules['warpsim'])\n"
             " from warpsim.driver.abi import binding\n"
             " binding.start('%s', %llu, %llu, %llu, %d, %d, %d)\n"
             "_warpsim()\n"
             "del _warpsim\n",
             embedded, library_name, (unsigned long long)(uintptr_t)names, (unsigned long long)(uintptr_t)stubs,
             (unsigned long long)(uintptr_t)table, count, embedded, version());
    run(code);
    if (!failed && embedded)
        atexit(end);
    else if (failed)
        fprintf(stderr, "warpsim: the simulator did not start\n");
}
