/* Programs and libraries that have NVIDIA's run time linked in (nvcc's default): each entry point of that run time that
   our libcudart has is made to lead there, before any of their code runs. None of NVIDIA's code is kept. Where the names
   have been stripped from a file, nothing is done, but for CuTe DSL's run time: it exports functions of its own that call
   NVIDIA's with the same arguments (_cudaMalloc is a jump to cudaMalloc), and those of the driver (_cuDeviceGet).

   The dynamic linker loads this through LD_AUDIT; it needs a libcudart of ours among the libraries, WARPSIM_CUDART. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct { /* the names of a file: of all its functions, or of those that it exports */
    const unsigned char *file;
    size_t bytes, count, text;
    const Elf64_Sym *symbols;
    const char *strings;
} Names;

static int within(const Names *n, uint64_t offset, uint64_t bytes)
{
    return offset <= n->bytes && bytes <= n->bytes - offset;
}

static void close_names(Names *n)
{
    if (n->file)
        munmap((void *)n->file, n->bytes);
    n->file = NULL;
}

/* 1 where the file is there and has a table of names of this kind */
static int open_names(Names *n, const char *path, uint32_t kind)
{
    struct stat about;
    memset(n, 0, sizeof *n);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    if (handle < 0)
        return 0;
    if (!fstat(handle, &about) && S_ISREG(about.st_mode) && about.st_size >= (off_t)sizeof(Elf64_Ehdr)) {
        n->bytes = (size_t)about.st_size;
        n->file = mmap(NULL, n->bytes, PROT_READ, MAP_PRIVATE, handle, 0);
        if (n->file == MAP_FAILED)
            n->file = NULL;
    }
    close(handle);
    if (!n->file)
        return 0;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)n->file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(n->file + head->e_shoff);
    if (!memcmp(head->e_ident, ELFMAG, SELFMAG) && head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_shoff &&
        head->e_shoff % 8 == 0 && head->e_shentsize == sizeof *sections &&
        within(n, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections))
        for (unsigned i = 0; i < head->e_shnum; i++) {
            const Elf64_Shdr *at = sections + i, *text = sections + at->sh_link;
            if (at->sh_type != kind || at->sh_link >= head->e_shnum || at->sh_offset % 8 || !text->sh_size ||
                !within(n, at->sh_offset, at->sh_size) || !within(n, text->sh_offset, text->sh_size) ||
                n->file[text->sh_offset + text->sh_size - 1])
                continue;
            n->symbols = (const Elf64_Sym *)(n->file + at->sh_offset);
            n->count = at->sh_size / sizeof(Elf64_Sym);
            n->strings = (const char *)(n->file + text->sh_offset);
            n->text = text->sh_size;
            return 1;
        }
    close_names(n);
    return 0;
}

static const char *name_of(const Names *n, const Elf64_Sym *at)
{
    int function = ELF64_ST_TYPE(at->st_info) == STT_FUNC && at->st_shndx != SHN_UNDEF && at->st_name < n->text;
    const char *name = function ? n->strings + at->st_name : "";
    int known = !strncmp(name, "cu", 2) || !strncmp(name, "_cu", 3) || !strncmp(name, "__cuda", 6);
    return known || !strncmp(name, "warpsim", 7) ? name : "";
}

/* The value of a name, a variant for streams of threads (_ptsz, _ptds) meaning the plain one; 0 where there is none */
static uint64_t value_of(const Names *n, const char *name)
{
    size_t length = strlen(name);
    if (length > 5 && (!strcmp(name + length - 5, "_ptsz") || !strcmp(name + length - 5, "_ptds")))
        length -= 5;
    for (size_t i = 0; length && i < n->count; i++) {
        const char *other = name_of(n, n->symbols + i);
        if (!strncmp(other, name, length) && !other[length])
            return n->symbols[i].st_value;
    }
    return 0;
}

#if defined __x86_64__
enum { JUMP = 14, LANDING = 4 };
static void jump(unsigned char *at, uint64_t target)
{
    memcpy(at, "\xff\x25\0\0\0\0", 6); /* jmp *0(%rip) */
    memcpy(at + 6, &target, 8);
}
static int lands(const unsigned char *at) { return !memcmp(at, "\xf3\x0f\x1e\xfa", 4); } /* endbr64 */
static unsigned char *destination(unsigned char *at) /* of a function that is one jump; NULL if it is not */
{
    int32_t distance;
    memcpy(&distance, at + 1, sizeof distance);
    return *at == 0xe9 ? at + 5 + distance : NULL;
}
#elif defined __aarch64__
enum { JUMP = 16, LANDING = 4 };
static void jump(unsigned char *at, uint64_t target)
{
    const uint32_t code[2] = {0x58000050, 0xd61f0200}; /* ldr x16, 8; br x16 */
    memcpy(at, code, 8);
    memcpy(at + 8, &target, 8);
}
static int lands(const unsigned char *at) { return !memcmp(at, "\x5f\x24\x03\xd5", 4); } /* bti c */
static unsigned char *destination(unsigned char *at)
{
    uint32_t code;
    memcpy(&code, at, sizeof code);
    return code >> 26 == 5 ? at + ((int32_t)(code << 6) >> 4) : NULL; /* b */
}
#else
enum { JUMP = 0, LANDING = 0 };
static void jump(unsigned char *at, uint64_t target) { (void)at, (void)target; }
static int lands(const unsigned char *at) { return at == NULL; }
static unsigned char *destination(unsigned char *at) { return at == NULL ? at : NULL; }
#endif

/* Functions begin at multiples of 16 bytes, so that what follows a small one is its own, too. */
static int fits(const unsigned char *at, uint64_t bytes)
{
    return JUMP && (bytes + 15) / 16 * 16 >= (uint64_t)JUMP + (lands(at) ? LANDING : 0);
}

static int redirect(unsigned char *at, uint64_t target)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)at & ~(page - 1);
    size_t bytes = (uintptr_t)at + LANDING + JUMP - first;
    if (mprotect((void *)first, bytes, PROT_READ | PROT_WRITE))
        return 0;
    if (lands(at))
        at += LANDING;
    jump(at, target);
    __builtin___clear_cache((char *)at, (char *)at + JUMP);
    return !mprotect((void *)first, bytes, PROT_READ | PROT_EXEC);
}

static Names runtime, driver; /* what our libcudart and libcuda export, once they are there */
static uintptr_t base, driver_base;

static void look_at(const char *path, uintptr_t start)
{
    Names names;
    const char *file = strrchr(path, '/');
    int cute = file && !strcmp(file, "/libcute_dsl_runtime.so");
    if (!open_names(&names, path, cute ? SHT_DYNSYM : SHT_SYMTAB))
        return;
    if (cute || (value_of(&names, "__cudaRegisterFatBinary") && value_of(&names, "cudaGetExportTable") &&
                 !value_of(&names, "warpsimMalloc3D"))) {
        for (size_t i = 0; i < names.count; i++) {
            const Elf64_Sym *at = names.symbols + i;
            const char *name = name_of(&names, at);
            name += cute && *name == '_';
            if (cute && !strcmp(name, "cudaLaunchKernelEx"))
                name = "cudaLaunchKernelExC"; /* what the other calls in C++ */
            uint64_t target = value_of(&runtime, name), other = cute ? value_of(&driver, name) : 0;
            unsigned char *code = (unsigned char *)(start + at->st_value), *there = cute && target ? destination(code) : NULL;
            if (cute && target && !there)
                continue; /* its arguments differ */
            target = target ? base + target : other ? driver_base + other : 0;
            if (target && (there || fits(code, at->st_size)) && !redirect(there ? there : code, target)) {
                fprintf(stderr, "warpsim: this system does not let %s use our run time; link it with -cudart shared\n",
                        path);
                break;
            }
        }
    }
    close_names(&names);
}

typedef struct Object {
    struct Object *next;
    uintptr_t start;
    char path[];
} Object;
static Object *waiting;

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    (void)cookie;
    const char *path = map->l_name && *map->l_name ? map->l_name : "/proc/self/exe", *ours = getenv("WARPSIM_CUDART");
    if (space != LM_ID_BASE)
        return 0;
    size_t folder = ours && strrchr(ours, '/') ? (size_t)(strrchr(ours, '/') - ours) : 0;
    if (ours && !strcmp(path, ours)) {
        base = map->l_addr;
        if (!runtime.file)
            open_names(&runtime, path, SHT_DYNSYM);
        return 0;
    }
    if (folder && !strncmp(path, ours, folder) && !strcmp(path + folder, "/libcuda.so.1")) {
        driver_base = map->l_addr;
        if (!driver.file)
            open_names(&driver, path, SHT_DYNSYM);
        return 0;
    }
    Object *object = malloc(sizeof *object + strlen(path) + 1);
    if (object) {
        object->start = map->l_addr;
        strcpy(object->path, path);
        object->next = waiting;
        waiting = object;
    }
    return 0;
}

void la_activity(uintptr_t *cookie, unsigned flag)
{
    (void)cookie;
    if (flag != LA_ACT_CONSISTENT || !runtime.file)
        return;
    while (waiting) {
        Object *object = waiting;
        waiting = object->next;
        look_at(object->path, object->start);
        free(object);
    }
}
