export interface User { id: string }
export type Id = string;
interface Local {}
export { Local, type Id as Other };
export default interface Thing {}
