for (const x of [1, 2]) {
  x;
}
