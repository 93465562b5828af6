import dayjs from 'dayjs';
import advancedFormat from 'dayjs/plugin/advancedFormat.js';
import customParseFormat from 'dayjs/plugin/customParseFormat.js';
import duration from 'dayjs/plugin/duration.js';
import isoWeek from 'dayjs/plugin/isoWeek.js';
import relativeTime from 'dayjs/plugin/relativeTime.js';
import utc from 'dayjs/plugin/utc.js';

for (const plugin of [utc, isoWeek, duration, relativeTime, customParseFormat, advancedFormat]) dayjs.extend(plugin);
const d = dayjs.utc('2024-01-31T10:20:30.456Z');
export default [d.add(1, 'month').format(), d.subtract(3, 'week').toISOString(), d.startOf('isoWeek').format('YYYY-MM-DD'), d.endOf('year').format('dddd, MMMM Do YYYY, h:mm:ss a'), d.isoWeek(), d.diff('2023-06-15', 'month', true).toFixed(4), d.from(dayjs.utc('2024-03-01')), dayjs.duration(3_725_000).format('HH:mm:ss'), dayjs.duration({ days: 2, hours: 5 }).humanize(), dayjs.utc('31/12/2023 23:59', 'DD/MM/YYYY HH:mm').unix(), d.isBefore('2025-01-01'), d.set('month', 1).date(), dayjs('bad').isValid()];
