// why not
async function () { return 1; }; // ok
