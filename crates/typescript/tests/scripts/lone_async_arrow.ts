async () => {
  const x = await a.b();
  return x;
}
