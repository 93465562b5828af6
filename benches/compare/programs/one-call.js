return await echo(1);
