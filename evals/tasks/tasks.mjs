// The tasks, done by direct calls. The calls are those of a careful model: it filters and groups where a tool can, asks for
// many files or rows at once, and makes independent calls in one turn. What it concludes is computed here.
// `DATA` in a question is the directory of the data. By code, a task is done by the queries of `search` and the programs
// programs/NAME.look.ts (a first look at the data, where signatures do not tell their form) and programs/NAME.ts.

const BATCH = 25; // files of one call of `read_multiple_files`

export const tasks = [
  {
    name: "errors",
    kind: "collect and count",
    question:
      "The directory `logs` has a log file of each day. How many errors did each service log, and on which day " +
      "were there most?",
    search: ["list a directory, read text files"],
    async calls(model) {
      const files = await readAll(model, "logs");
      const errors = {};
      const days = {};
      for (const [name, text] of files) {
        for (const [, service] of text.matchAll(/ ERROR (\w+):/g)) {
          errors[service] = (errors[service] ?? 0) + 1;
          days[name.slice(0, 10)] = (days[name.slice(0, 10)] ?? 0) + 1;
        }
      }
      return { errors, worst_day: Object.keys(days).sort((a, b) => days[b] - days[a] || a.localeCompare(b))[0] };
    },
  },
  {
    name: "actions",
    kind: "collect and count",
    question:
      "The directory `notes` has the notes of meetings. How many open action items has each person, and how " +
      "many of them are overdue? Today is 2026-03-16.",
    search: ["list a directory, read text files"],
    async calls(model) {
      const owners = {};
      for (const [, text] of await readAll(model, "notes")) {
        for (const [, owner, due] of text.matchAll(/- \[ \] @(\w+): .*\(due (.*)\)/g)) {
          const row = (owners[owner] ??= { open: 0, overdue: 0 });
          row.open += 1;
          if (due < "2026-03-16") row.overdue += 1;
        }
      }
      return owners;
    },
  },
  {
    name: "invoices",
    kind: "compare two sources",
    question:
      "Compare the invoices in the directory `invoices` with the orders of the database that have the status " +
      "`invoiced` and were ordered before 2026-02-20. Which orders have an invoice with another total (in " +
      "cents), and which have none?",
    search: ["list a directory, read text files", "run a SQL query"],
    async calls(model) {
      const [listing] = await model.turn([
        ["files", "list_directory", { path: "invoices" }],
        ["db", "list_columns", { table: "orders" }],
      ]);
      const [orders, ...batches] = await model.turn([
        [
          "db",
          "execute_query",
          { sql: "SELECT id, total_cents FROM orders WHERE status = 'invoiced' AND ordered_at < '2026-02-20' ORDER BY id" },
        ],
        ...readCalls("invoices", namesOf(listing)),
      ]);
      const invoiced = new Map(
        contentsOf(batches)
          .map(([, text]) => JSON.parse(text))
          .map((each) => [each.order, each.amounts.gross_cents]),
      );
      const { rows } = JSON.parse(orders);
      return {
        different: rows
          .filter(([id, total]) => invoiced.has(id) && invoiced.get(id) !== total)
          .map(([id, total]) => ({ order: id, ordered: total, invoiced: invoiced.get(id) })),
        missing: rows.map(([id]) => id).filter((id) => !invoiced.has(id)),
      };
    },
  },
  {
    name: "prices",
    kind: "compare two sources",
    question:
      "The workbook `DATA/prices.xlsx` has a price list on each sheet. For which products is the price in the " +
      "database different (in cents), and which of its products are not in the database?",
    search: ["read the sheets of an Excel workbook", "run a SQL query"],
    async calls(model) {
      const file = { fileAbsolutePath: `${model.data}/prices.xlsx` };
      const [description] = await model.turn([
        ["excel", "excel_describe_sheets", file],
        ["db", "list_columns", { table: "products" }],
      ]);
      const ranges = JSON.parse(description).sheets.flatMap((sheet) =>
        sheet.pagingRanges.map((range) => ({ sheetName: sheet.name, range })),
      );
      const [products, ...pages] = await model.turn([
        ["db", "execute_query", { sql: "SELECT sku, price_cents FROM products ORDER BY sku" }],
        ...ranges.map((range) => ["excel", "excel_read_sheet", { ...file, ...range }]),
      ]);
      const database = new Map(JSON.parse(products).rows);
      const listed = pages
        .flatMap((page) => [...page.matchAll(/<td>(P\w+)<\/td><td>.*?<\/td><td>([\d.]+)<\/td>/g)])
        .map(([, sku, price]) => ({ sku, workbook: Math.round(price * 100), database: database.get(sku) }));
      const bySku = (a, b) => a.sku.localeCompare(b.sku);
      return {
        different: listed.filter((row) => row.database !== undefined && row.database !== row.workbook).sort(bySku),
        unknown: listed
          .filter((row) => row.database === undefined)
          .map((row) => row.sku)
          .sort(),
      };
    },
  },
  {
    name: "commits",
    kind: "walk pages",
    question:
      "How many commits has each author made in the repository `DATA/repo`, and how many of them are fixes (the " +
      "subject starts with `fix`)?",
    search: ["commit history of a repository"],
    async calls(model) {
      const authors = {};
      for (let skip = 0, count = 100; count === 100; skip += 100) {
        const [page] = await model.turn([["git", "git_log", { path: `${model.data}/repo`, maxCount: 100, skip }]]);
        const { commits } = JSON.parse(page);
        for (const { author, subject } of commits) {
          const row = (authors[author] ??= { commits: 0, fixes: 0 });
          row.commits += 1;
          if (subject.startsWith("fix")) row.fixes += 1;
        }
        count = commits.length;
      }
      return authors;
    },
  },
  {
    name: "teams",
    kind: "join two servers",
    question:
      "The knowledge graph knows the team of each person. How many commits in the repository `DATA/repo` that " +
      "change `services/payments` or `services/cart` are from each team?",
    search: ["commit history of a repository", "read the knowledge graph"],
    async calls(model) {
      const log = (service) => ["git", "git_log", { path: `${model.data}/repo`, maxCount: 500, filePath: `services/${service}` }];
      const [graph, ...logs] = await model.turn([["memory", "read_graph", {}], log("payments"), log("cart")]);
      const teams = new Map(
        JSON.parse(graph)
          .relations.filter(({ relationType }) => relationType === "member_of")
          .map(({ from, to }) => [from, to]),
      );
      const count = {};
      for (const { author } of logs.flatMap((text) => JSON.parse(text).commits))
        count[teams.get(author)] = (count[teams.get(author)] ?? 0) + 1;
      return count;
    },
  },
  {
    name: "offices",
    kind: "join two servers",
    question:
      "The table `offices` of the database has the opening hours of each office in its time zone. Which offices " +
      "are open at 12:00 UTC?",
    search: ["run a SQL query", "convert time between time zones"],
    async calls(model) {
      const [offices] = await model.turn([["db", "execute_query", { sql: "SELECT * FROM offices" }]]);
      const { rows } = JSON.parse(offices);
      const times = await model.turn(
        rows.map(([, zone]) => ["time", "convert_time", { source_timezone: "UTC", time: "12:00", target_timezone: zone }]),
      );
      const open = ([, , opens, closes], at) => {
        const time = JSON.parse(times[at]).target.datetime.slice(11, 16);
        return opens <= time && time < closes;
      };
      return rows
        .filter(open)
        .map(([city]) => city)
        .sort();
    },
  },
  {
    name: "escalations",
    kind: "fill a server from another",
    question:
      "For each customer of the database with at least two open tickets, add an entity of the type `customer` " +
      "to the knowledge graph: its name, and the subjects of these tickets, by their ids, as observations.",
    search: ["run a SQL query", "create entities in the knowledge graph"],
    async calls(model) {
      // The database server confuses the results of concurrent calls: one call at a time.
      await model.turn([["db", "list_columns", { table: "customers" }]]);
      await model.turn([["db", "list_columns", { table: "tickets" }]]);
      const sql =
        "SELECT c.name, list(t.subject ORDER BY t.id) FROM customers c JOIN tickets t ON t.customer_id = c.id " +
        "WHERE t.status = 'open' GROUP BY c.name HAVING count(*) >= 2";
      const [found] = await model.turn([["db", "execute_query", { sql }]]);
      const entities = JSON.parse(found).rows.map(([name, observations]) => ({ name, entityType: "customer", observations }));
      await model.turn([["memory", "create_entities", { entities }]]);
    },
    // The answer of a task that writes is what is there afterwards.
    async written(call) {
      const { entities } = JSON.parse(await call("memory", "read_graph", {}));
      return entities
        .filter(({ entityType }) => entityType === "customer")
        .map(({ name, entityType, observations }) => ({ name, entityType, observations }))
        .sort((a, b) => (a.name < b.name ? -1 : 1));
    },
  },
  {
    name: "import",
    kind: "fill a server from another",
    question:
      "Create a table `invoices` in the database with the number, the id of the order, the date of issue and " +
      "the gross total in cents of each invoice in the directory `invoices`.",
    search: ["list a directory, read text files", "run a SQL query"],
    async calls(model) {
      const [listing] = await model.turn([["files", "list_directory", { path: "invoices" }]]);
      const batches = await model.turn(readCalls("invoices", namesOf(listing)));
      const rows = contentsOf(batches)
        .map(([, text]) => JSON.parse(text))
        .map((each) => `('${each.number}', ${each.order}, '${each.issued}', ${each.amounts.gross_cents})`);
      await model.turn([
        [
          "db",
          "execute_query",
          {
            sql:
              "CREATE TABLE invoices (number TEXT, order_id INTEGER, issued DATE, gross_cents INTEGER); " +
              `INSERT INTO invoices VALUES ${rows.join(", ")}`,
          },
        ],
      ]);
    },
    async written(call) {
      const sql = "SELECT count(DISTINCT number)::INTEGER, sum(gross_cents)::INTEGER FROM invoices";
      const [[invoices, gross_cents]] = JSON.parse(await call("db", "execute_query", { sql })).rows;
      return { invoices, gross_cents };
    },
  },
];

// Tasks of one call, for which the way matters most. They are not part of the ratio. `exposed` is the tool that a gateway shows to
// clients.
export const shortTasks = [
  {
    name: "clock",
    kind: "one call",
    question: "It is 09:30 in Kolkata. What time is it in Tokyo?",
    search: ["convert time between time zones"],
    exposed: "time.convert_time",
    async calls(model) {
      const zones = { source_timezone: "Asia/Kolkata", time: "09:30", target_timezone: "Asia/Tokyo" };
      const [converted] = await model.turn([["time", "convert_time", zones]]);
      return { time: JSON.parse(converted).target.datetime.slice(11, 16) };
    },
  },
  {
    name: "tickets",
    kind: "one call",
    question: "How many tickets of the database are open?",
    search: ["run a SQL query"],
    exposed: "db.execute_query",
    async calls(model) {
      const sql = "SELECT count(*)::INTEGER FROM tickets WHERE status = 'open'";
      const [found] = await model.turn([["db", "execute_query", { sql }]]);
      return JSON.parse(found).rows[0][0];
    },
  },
];

// Lists a directory and reads its files: pairs of name and text.
async function readAll(model, directory) {
  const [listing] = await model.turn([["files", "list_directory", { path: directory }]]);
  return contentsOf(await model.turn(readCalls(directory, namesOf(listing))));
}

function namesOf(listing) {
  return [...listing.matchAll(/^\[FILE\] (.*)$/gm)].map(([, name]) => name);
}

function readCalls(directory, names) {
  const calls = [];
  for (let at = 0; at < names.length; at += BATCH) {
    const paths = names.slice(at, at + BATCH).map((name) => `${directory}/${name}`);
    calls.push(["files", "read_multiple_files", { paths }]);
  }
  return calls;
}

function contentsOf(results) {
  return results
    .flatMap((text) => text.split("\n---\n"))
    .map((part) => part.trimStart())
    .map((part) => [part.slice(part.indexOf("/") + 1, part.indexOf(":\n")), part.slice(part.indexOf(":\n") + 2)]);
}
