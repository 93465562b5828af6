const hits: Hit[] = [];
hits;
type Hit = { id: string };
interface Other extends Hit {}
declare const host: string;
declare function g(): void;
