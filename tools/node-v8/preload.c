// Linked into each program by `cc`: node starts the program's `main` instead of its own, and the program finds its own path.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Main(int, char **, char **);
typedef int Start(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

extern Main main;
static char executable[PATH_MAX];

// Called by node's entry point. Processes that the program starts are not to have the variables of launch.c.
__attribute__((visibility("default"))) int __libc_start_main(Main *node, int argc, char **argv, void (*init)(void),
                                                             void (*fini)(void), void (*end)(void), void *stack) {
  (void)node;
  const char *path = getenv("EXECBOX_CI_EXECUTABLE");
  strncpy(executable, path ? path : argv[0], sizeof executable - 1);
  unsetenv("EXECBOX_CI_EXECUTABLE");
  unsetenv("LD_PRELOAD");
  Start *start = (Start *)dlsym(RTLD_NEXT, "__libc_start_main");
  return start(main, argc, argv, init, fini, end, stack);
}

// `std::env::current_exe` reads this link, which leads to node.
ssize_t readlink(const char *path, char *buffer, size_t size) {
  if (strcmp(path, "/proc/self/exe") != 0) return readlinkat(AT_FDCWD, path, buffer, size);
  size_t length = strlen(executable);
  if (length > size) length = size;
  memcpy(buffer, executable, length);
  return (ssize_t)length;
}
