const { content } = await files.list_directory({ path: "notes" });
const names = content.split("\n").map((line) => line.replace("[FILE] ", ""));
const owners = {};
const texts = await Promise.all(names.map((name) => files.read_text_file({ path: `notes/${name}` })));
for (const { content } of texts) {
  for (const line of content.split("\n")) {
    const match = /^- \[ \] @(\w+): .* \(due (\d{4}-\d{2}-\d{2})\)/.exec(line);
    if (!match) continue;
    const row = (owners[match[1]] ??= { open: 0, overdue: 0 });
    row.open += 1;
    if (match[2] < "2026-03-16") row.overdue += 1;
  }
}
return owners;
