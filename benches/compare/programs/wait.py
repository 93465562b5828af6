await wait(1)
