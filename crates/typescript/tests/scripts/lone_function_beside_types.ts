interface Hit { id: string }
type Hits = Hit[];
async function main(): Promise<Hits> { return []; }
