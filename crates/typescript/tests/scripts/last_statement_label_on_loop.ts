out: for (;;) {
  break out;
}
