/** How many days lie between two dates. */
export const days = (from, to) => Math.floor((to - from) / 86_400_000);
