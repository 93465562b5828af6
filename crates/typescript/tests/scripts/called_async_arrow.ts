(async () => {
  return 1;
})();
