const first = pick<string>('a');
export default new Map<string, Array<number>>([[first, [1]]]);
