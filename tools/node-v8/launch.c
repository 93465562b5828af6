// The executable of a program that is linked by `cc`: starts node with the program preloaded.
//
// The variable that tells the program its own path is read by preload.c, which removes both variables.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const char *preloaded;

int main(int argc, char **argv) {
  (void)argc;
  char executable[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
  if (length < 0) {
    perror("/proc/self/exe");
    return 127;
  }
  executable[length] = 0;
  setenv("LD_PRELOAD", preloaded, 1);
  setenv("EXECBOX_CI_EXECUTABLE", executable, 1);
  execv(NODE, argv);
  perror(NODE);
  return 127;
}
