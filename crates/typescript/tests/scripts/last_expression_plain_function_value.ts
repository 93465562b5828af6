(function () { return 1; })
