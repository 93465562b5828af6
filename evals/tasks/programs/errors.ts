const { content } = await files.list_directory({ path: "logs" });
const names = content
  .split("\n")
  .filter((line) => line.startsWith("[FILE]"))
  .map((line) => line.slice(7));
const errors = {};
const days = {};
await Promise.all(
  names.map(async (name) => {
    const day = name.replace(".log", "");
    const { content } = await files.read_text_file({ path: `logs/${name}` });
    for (const line of content.split("\n")) {
      const match = /^\S+ ERROR +(\w+):/.exec(line);
      if (!match) continue;
      errors[match[1]] = (errors[match[1]] ?? 0) + 1;
      days[day] = (days[day] ?? 0) + 1;
    }
  }),
);
const worst_day = Object.entries(days).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1))[0][0];
return { errors, worst_day };
