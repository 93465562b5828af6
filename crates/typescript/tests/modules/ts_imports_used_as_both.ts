import { Kind } from './kinds';
import Base, * as all from './base';
export class A extends Base { kind: Kind = Kind.A; other?: all.Other = all.value; }
