try {
  await risky();
} catch (error) {
  ({ failed: error.message });
} finally {
  cleanUp();
}
