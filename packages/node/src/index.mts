/** The package for `import`: that for `require`, of which there is one copy in any case. */
export * from "./index.js";
