const a = await import('./a.js', { with: { type: 'js' } });
for await (const b of a) {}
export default import.meta.url;
