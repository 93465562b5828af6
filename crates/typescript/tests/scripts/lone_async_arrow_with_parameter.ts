async (input) => input
