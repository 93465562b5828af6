export default a?.b!.c?.[0]!(1 as any);
