"""Writes the data of the tasks to directories, the same in each, and the expected answers.

    fixtures.py ANSWERS DIRECTORY...

The data is the same in every run. The answers are computed from the generated rows, without any MCP server.
"""

import json
import random
import subprocess
import sys
import zipfile
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import duckdb

TODAY = date(2026, 3, 16)
TEAMS = ["Billing", "Catalog", "Delivery", "Platform", "Support"]
PEOPLE = (
    "Ada Bela Carlo Dina Emil Fay Goran Hana Ivo Jana Karl Lena Milo Nora Otto Pia Quinn Rosa Sven Tara Ugo Vera Wim Zoe".split()
)
SERVICES = ["auth", "cart", "mail", "payments", "search", "stock"]
# Zones without daylight saving time: the answers do not depend on the date.
ZONES = {
    "America/Bogota": -5, "America/Caracas": -4, "America/Guatemala": -6, "America/Lima": -5, "America/Panama": -5,
    "America/Phoenix": -7, "America/Sao_Paulo": -3, "Africa/Lagos": 1, "Africa/Nairobi": 3, "Africa/Accra": 0,
    "Asia/Bangkok": 7, "Asia/Dubai": 4, "Asia/Karachi": 5, "Asia/Manila": 8, "Asia/Seoul": 9, "Asia/Singapore": 8,
    "Asia/Tokyo": 9, "Australia/Brisbane": 10, "Pacific/Honolulu": -10, "Asia/Riyadh": 3,
}  # fmt: skip

rng = random.Random(1)
answers = {}


def logs():
    """One log of each of 14 days."""
    messages = {
        "INFO": ["request handled in {} ms", "cache refreshed with {} entries", "connected to the database as session {}"],
        "WARN": ["slow query: {} ms", "retrying after {} ms", "queue has {} waiting jobs"],
        "ERROR": ["request failed with status 500 after {} ms", "connection lost, attempt {}"],
    }
    files, errors, days = {}, Counter(), Counter()
    for day in range(1, 15):
        lines = []
        for second in sorted(rng.sample(range(86_400), 60)):
            level = rng.choices(["INFO", "WARN", "ERROR"], [75, 15, 10])[0]
            service = rng.choice(SERVICES)
            at = datetime(2026, 3, day) + timedelta(seconds=second)
            lines.append(f"{at.isoformat()}Z {level:<5} {service}: {rng.choice(messages[level]).format(rng.randint(1, 900))}")
            if level == "ERROR":
                errors[service] += 1
                days[f"2026-03-{day:02}"] += 1
        files[f"logs/2026-03-{day:02}.log"] = "\n".join(lines) + "\n"
    worst = min(days, key=lambda day: (-days[day], day))
    answers["errors"] = {"errors": {name: errors[name] for name in SERVICES}, "worst_day": worst}
    return files


def notes():
    """Notes of 40 meetings, with action items."""
    actions = [
        "send the offer",
        "update the price list",
        "call the supplier",
        "check the backups",
        "plan the release",
        "review the contract",
    ]
    talk = [
        "We went through the numbers of last week. They are close to the plan.",
        "The supplier in Lisbon delivers two days late on average; nobody knows why.",
        "The new label printer works, but the paper tray jams in the afternoon.",
        "Two customers asked for invoices by post. We decided to offer that from April.",
        "The office move is confirmed for the second week of May.",
    ]
    files, found = {}, {}
    for number in range(40):
        day = date(2026, 1, 12) + timedelta(days=number * 3 // 2)
        present = rng.sample(PEOPLE, 5)
        items = []
        for _ in range(rng.randint(3, 6)):
            owner, done = rng.choice(present), rng.random() < 0.45
            due = day + timedelta(days=rng.randint(4, 40))
            items.append(f"- [{'x' if done else ' '}] @{owner}: {rng.choice(actions)} (due {due})")
            if not done:
                row = found.setdefault(owner, {"open": 0, "overdue": 0})
                row["open"] += 1
                row["overdue"] += due < TODAY
        files[f"notes/{day}-{number:02}.md"] = "\n\n".join(
            [
                f"# Weekly meeting, {day}",
                f"Present: {', '.join(present)}",
                *rng.sample(talk, 4),
                "## Actions\n\n" + "\n".join(items) + "\n",
            ]
        )
    answers["actions"] = dict(sorted(found.items()))
    return files


def database(path):
    customers = [
        (
            number,
            f"{rng.choice(PEOPLE)} {rng.choice(['Alder', 'Birch', 'Cedar', 'Maple', 'Rowan', 'Willow'])} {number}",
            rng.choice(["DE", "FR", "IT", "PL", "PT"]),
        )
        for number in range(1, 81)
    ]
    orders = [
        (
            1000 + n,
            rng.randint(1, 80),
            date(2026, 1, 1) + timedelta(days=n * 74 // 400),
            rng.choice(["invoiced", "open", "paid"]),
            rng.randint(900, 90_000),
        )
        for n in range(400)
    ]
    subjects = ["parcel is late", "wrong item delivered", "refund not received", "invoice has no VAT number", "cannot log in"]
    tickets = [
        (
            n,
            rng.randint(1, 80),
            rng.choice(subjects),
            rng.choice(["open", "closed", "closed"]),
            date(2026, 2, 1) + timedelta(days=n * 40 // 150),
        )
        for n in range(1, 151)
    ]
    products = [
        (f"P{n:04}", f"{rng.choice(['tent', 'stove', 'lamp', 'rope', 'pack', 'boot'])} {n}", rng.randint(300, 60_000))
        for n in range(1, 401)
    ]
    offices = [
        (zone.split("/")[1].replace("_", " "), zone, f"{rng.randint(7, 11):02}:00", f"{rng.randint(15, 20):02}:30")
        for zone in ZONES
    ]
    tables = {
        "customers": ("id INTEGER, name TEXT, country TEXT", customers),
        "orders": ("id INTEGER, customer_id INTEGER, ordered_at DATE, status TEXT, total_cents INTEGER", orders),
        "tickets": ("id INTEGER, customer_id INTEGER, subject TEXT, status TEXT, opened_at DATE", tickets),
        "products": ("sku TEXT, name TEXT, price_cents INTEGER", products),
        "offices": ("city TEXT, time_zone TEXT, opens TEXT, closes TEXT", offices),
    }
    with duckdb.connect(path) as connection:
        for name, (columns, rows) in tables.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    by_customer = {}
    for _, customer, subject, status, _ in sorted(tickets):
        if status == "open":
            by_customer.setdefault(customer, []).append(subject)
    entities = [
        {"name": customers[customer - 1][1], "entityType": "customer", "observations": subjects}
        for customer, subjects in by_customer.items()
        if len(subjects) >= 2
    ]
    answers["escalations"] = sorted(entities, key=lambda entity: entity["name"])

    noon = {city: (12 + ZONES[zone]) % 24 for city, zone, _, _ in offices}
    answers["offices"] = sorted(city for city, _, opens, closes in offices if opens <= f"{noon[city]:02}:00" < closes)
    answers["clock"] = {"time": "13:00"}  # neither zone has daylight saving time
    answers["tickets"] = sum(status == "open" for _, _, _, status, _ in tickets)
    return orders, products


def invoices(orders):
    """Invoices of the orders that are invoiced. Some are missing, and some have another total."""
    files, different, missing, rows = {}, [], [], []
    for id, customer, day, status, total in orders:
        if status != "invoiced" or day >= date(2026, 2, 20):
            continue
        if rng.random() < 0.06:
            missing.append(id)
            continue
        wrong = rng.choice([100, -100, 1900]) if rng.random() < 0.08 else 0
        net = (total + wrong) * 100 // 119
        invoice = {
            "number": f"2026-{id}",
            "order": id,
            "issued": str(day + timedelta(days=2)),
            "customer": {"id": customer, "reference": f"C-{customer:05}", "terms": "30 days net"},
            "amounts": {"currency": "EUR", "net_cents": net, "tax_cents": total + wrong - net, "gross_cents": total + wrong},
            "payment": {"method": "transfer", "due": str(day + timedelta(days=32))},
        }
        files[f"invoices/{invoice['number']}.json"] = json.dumps(invoice, indent=2) + "\n"
        rows.append(total + wrong)
        if wrong:
            different.append({"order": id, "ordered": total, "invoiced": total + wrong})
    answers["invoices"] = {"different": different, "missing": missing}
    answers["import"] = {"invoices": len(rows), "gross_cents": sum(rows)}
    return files


def prices(products):
    """A workbook with the prices that should be in the database: by sheet, a list of products."""
    sheets, different, unknown = {"Tents to lamps": [], "Ropes to boots": []}, [], []
    for sku, name, price in products:
        rows = sheets["Tents to lamps" if name.split()[0] in ("tent", "stove", "lamp") else "Ropes to boots"]
        if rng.random() < 0.03:
            unknown.append(f"{sku}X")
            sku += "X"
        elif rng.random() < 0.05:
            new = price + rng.choice([50, 150, -100])
            different.append({"sku": sku, "workbook": new, "database": price})
            price = new
        rows.append([sku, name, price / 100, rng.choice(["Alder & Sons", "Nordkap", "Vela"])])
    header = ["SKU", "Product", "Price EUR", "Supplier"]
    answers["prices"] = {"different": sorted(different, key=lambda row: row["sku"]), "unknown": sorted(unknown)}
    return {name: [header, *rows] for name, rows in sheets.items()}


def workbook(path, sheets):
    """The least that a workbook needs, with texts in the cells."""
    main, office = (
        "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    )
    package, kind = (
        "http://schemas.openxmlformats.org/package/2006",
        "application/vnd.openxmlformats-officedocument.spreadsheetml",
    )
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    }
    types, entries, targets = "", "", ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        types += f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{kind}.worksheet+xml"/>'
        entries += f'<sheet name="{name}" sheetId="{number}" r:id="rId{number}"/>'
        targets += f'<Relationship Id="rId{number}" Type="{office}/worksheet" Target="worksheets/sheet{number}.xml"/>'
        cells = ""
        for at, row in enumerate(rows, 1):
            cells += f'<row r="{at}">'
            for column, value in zip("ABCD", row):
                if isinstance(value, float):
                    cells += f'<c r="{column}{at}"><v>{value}</v></c>'
                else:
                    text = value.replace("&", "&amp;")
                    cells += f'<c r="{column}{at}" t="inlineStr"><is><t>{text}</t></is></c>'
            cells += "</row>"
        parts[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{main}"><dimension ref="A1:D{len(rows)}"/><sheetData>{cells}</sheetData></worksheet>'
        )
    parts["xl/workbook.xml"] = f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{entries}</sheets></workbook>'
    parts["xl/_rels/workbook.xml.rels"] = f'<Relationships xmlns="{package}/relationships">{targets}</Relationships>'
    parts["[Content_Types].xml"] = (
        f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>{types}</Types>'
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>{text}')


def graph():
    """People, their teams and time zones, as the memory server stores them."""
    team_of = {person: TEAMS[at % 5] for at, person in enumerate(PEOPLE)}
    lines = [
        {"type": "entity", "name": team, "entityType": "team", "observations": [f"has its own channel #{team.lower()}"]}
        for team in TEAMS
    ]
    for person, team in team_of.items():
        facts = [
            f"email: {person.lower()}@example.com",
            f"works from {rng.choice(list(ZONES))}",
            f"joined in {rng.randint(2015, 2025)}",
        ]
        lines.append({"type": "entity", "name": person, "entityType": "person", "observations": facts})
    lines += [{"type": "relation", "from": person, "to": team, "relationType": "member_of"} for person, team in team_of.items()]
    return "\n".join(json.dumps(line) for line in lines), team_of


def commits(team_of):
    """260 commits of January to March, for `git fast-import`."""
    kinds = {
        "feat": "add {} to the {} service",
        "fix": "repair {} in the {} service",
        "docs": "describe {} of the {} service",
        "test": "test {} of the {} service",
    }
    things = ["time limits", "retries", "error pages", "page sizes", "audit lines", "rounding"]
    stream, by_author, by_team = [], {}, Counter()
    for number in range(260):
        at = datetime(2026, 1, 2, 8, tzinfo=timezone.utc) + timedelta(hours=number * 6.5)
        author, service, kind = rng.choice(PEOPLE[:10]), rng.choice(SERVICES), rng.choice(list(kinds))
        message = f"{kind}({service}): {kinds[kind].format(rng.choice(things), service)}"
        text, content = message.encode(), f"{number}\n".encode()
        who = f"{author} <{author.lower()}@example.com> {int(at.timestamp())} +0000"
        stream.append(
            f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(text)}\n".encode() + text
            + f"\nM 644 inline services/{service}/change-{number:03}.txt\ndata {len(content)}\n".encode() + content + b"\n"
        )  # fmt: skip
        row = by_author.setdefault(author, {"commits": 0, "fixes": 0})
        row["commits"] += 1
        row["fixes"] += kind == "fix"
        if service in ("payments", "cart"):
            by_team[team_of[author]] += 1
    answers["commits"] = dict(sorted(by_author.items()))
    answers["teams"] = dict(sorted(by_team.items()))
    return b"".join(stream)


def main(answers_path, *directories):
    first = Path(directories[0])
    first.mkdir(parents=True)
    files = logs() | notes()
    orders, products = database(str(first / "shop.db"))
    files |= invoices(orders)
    sheets = prices(products)
    memory, team_of = graph()
    stream = commits(team_of)
    for directory in map(Path, directories):
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            path = directory / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if directory != first:
            (directory / "shop.db").write_bytes((first / "shop.db").read_bytes())
        workbook(directory / "prices.xlsx", sheets)
        (directory / "memory.jsonl").write_text(memory)
        git = ["git", "-C", str(directory / "repo")]
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(directory / "repo")], check=True)
        subprocess.run([*git, "fast-import", "--quiet"], input=stream, check=True)
        subprocess.run([*git, "reset", "--quiet", "--hard"], check=True)
    Path(answers_path).write_text(json.dumps(answers, indent=2) + "\n")


main(*sys.argv[1:])
