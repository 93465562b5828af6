const { relations } = await memory.read_graph();
const teams = new Map(relations.filter((each) => each.relationType === "member_of").map((each) => [each.from, each.to]));
const logs = await Promise.all(
  ["services/payments", "services/cart"].map((filePath) => git.git_log({ path: "DATA/repo", maxCount: 1000, filePath })),
);
const authors = new Map(logs.flatMap((log) => log.commits).map((commit) => [commit.hash, commit.author]));
const count = {};
for (const author of authors.values()) {
  const team = teams.get(author) ?? author;
  count[team] = (count[team] ?? 0) + 1;
}
return count;
