declare const input: number[];
export default input
