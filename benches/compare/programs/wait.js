return await wait(1);
