// Pictures as SVG. They have a light background of their own, so that they can be read on light and dark pages.
const FONT = 'font-family="system-ui, sans-serif" font-size="13"';
const INK = "#1f2328";
const COLORS = { good: "#c7ebd0", warn: "#fbe3a6", bad: "#f7b8b3", none: "#eceff2" };

/** Horizontal bars on a logarithmic scale. */
export function bars(title, entries) {
  const [left, width, height] = [230, 760, 56 + entries.length * 24];
  const values = entries.map(({ value }) => value);
  const low = Math.floor(Math.log10(Math.min(...values)) - 0.01);
  const high = Math.ceil(Math.log10(Math.max(...values)));
  const x = (value) => left + ((Math.log10(value) - low) / Math.max(1, high - low)) * (width - left - 100);
  const parts = [];
  for (let power = low; power <= high; power++) {
    const at = x(10 ** power).toFixed(0);
    parts.push(`<line x1="${at}" x2="${at}" y1="36" y2="${height - 14}" stroke="#d5dae0"/>`);
  }
  entries.forEach(({ label, value, text, own }, index) => {
    const y = 40 + index * 24;
    parts.push(`<text x="${left - 8}" y="${y + 14}" text-anchor="end"${own ? ' font-weight="700"' : ""}>${escape(label)}</text>`);
    parts.push(`<rect x="${left}" y="${y}" width="${Math.max(2, x(value) - left).toFixed(0)}" height="18" rx="2" fill="${own ? "#1f6feb" : "#8c96a3"}"/>`);
    parts.push(`<text x="${(Math.max(x(value), left + 2) + 6).toFixed(0)}" y="${y + 14}">${escape(text)}</text>`);
  });
  return svg(title, width, height, parts);
}

/** A table whose cells have a color and a text. */
export function grid(title, columns, rows, cells) {
  const [left, cell, line] = [230, 92, 24];
  const width = left + columns.length * cell + 12;
  const height = 62 + rows.length * line;
  const parts = columns.map((name, index) => `<text x="${left + index * cell + cell / 2}" y="48" text-anchor="middle" font-size="11">${escape(name)}</text>`);
  rows.forEach((name, row) => {
    const y = 54 + row * line;
    parts.push(`<text x="${left - 8}" y="${y + 15}" text-anchor="end">${escape(name)}</text>`);
    cells[row].forEach(([level, text], column) => {
      const x = left + column * cell;
      parts.push(`<rect x="${x + 1}" y="${y}" width="${cell - 2}" height="${line - 2}" rx="2" fill="${COLORS[level]}"/>`);
      parts.push(`<text x="${x + cell / 2}" y="${y + 15}" text-anchor="middle" font-size="11">${escape(text)}</text>`);
    });
  });
  return svg(title, width, height, parts);
}

function svg(title, width, height, parts) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" ${FONT} fill="${INK}">
<title>${escape(title)}</title>
<rect width="${width}" height="${height}" rx="6" fill="#ffffff" stroke="#d5dae0"/>
<text x="16" y="24" font-weight="700">${escape(title)}</text>
${parts.join("\n")}
</svg>
`;
}

const escape = (text) => text.replace(/[&<>"]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[each]);
