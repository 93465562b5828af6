function () { return 1; }
