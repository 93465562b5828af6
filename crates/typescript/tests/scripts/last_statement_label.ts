out: {
  if (x) break out;
  5;
}
