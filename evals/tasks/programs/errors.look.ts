const { content } = await files.list_directory({ path: "logs" });
const [first] = content.match(/[^ ]+\.log/);
return [content, (await files.read_text_file({ path: `logs/${first}`, head: 6 })).content];
