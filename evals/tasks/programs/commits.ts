const authors = {};
for (let skip = 0; ; skip += 500) {
  const { commits } = await git.git_log({ path: "DATA/repo", maxCount: 500, skip });
  for (const { author, subject } of commits) {
    const row = (authors[author] ??= { commits: 0, fixes: 0 });
    row.commits += 1;
    if (subject.startsWith("fix")) row.fixes += 1;
  }
  if (commits.length < 500) return authors;
}
