{
  using x = f();
  await using y = g();
}
