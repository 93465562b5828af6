const { content } = await files.list_directory({ path: "invoices" });
const names = content.split("\n");
const first = names[0].replace("[FILE] ", "");
return [names.length, names.slice(0, 3), (await files.read_text_file({ path: `invoices/${first}` })).content];
