const who = 'you';
`hello ${who}`
