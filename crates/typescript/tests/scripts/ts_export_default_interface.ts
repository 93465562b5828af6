export default interface I {}
3
