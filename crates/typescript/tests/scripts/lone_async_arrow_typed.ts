async (): Promise<number> => { return 1 as number; }
