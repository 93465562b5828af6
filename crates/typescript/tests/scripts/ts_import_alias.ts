namespace N { export const x = 1 }
import y = N.x;
y
