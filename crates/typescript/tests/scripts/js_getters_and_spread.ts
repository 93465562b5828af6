({ get a() { return 1 }, ...b, ['c' + d]: e, async *f() {} })
