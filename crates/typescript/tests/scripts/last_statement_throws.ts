throw new Error('no')
