import { addBusinessDays, addDays, addMonths, compareAsc, differenceInCalendarDays, differenceInMonths, eachDayOfInterval, endOfMonth, format, formatDistance, formatDuration, formatISO, getISOWeek, intervalToDuration, isWeekend, parse, parseISO, startOfWeek, sub } from 'date-fns';

const start = parseISO('2024-01-31T10:20:30Z');
export default [
  formatISO(addMonths(start, 1)), formatISO(addDays(start, 30)), formatISO(addBusinessDays(start, 7)), formatISO(endOfMonth(start)), formatISO(startOfWeek(start, { weekStartsOn: 1 })),
  format(start, "EEEE, do MMMM yyyy 'at' HH:mm:ss, QQQ, w"), format(start, 'yyyy-MM-dd KK:mm aaa xxx'), formatDistance(start, addDays(start, 45), { addSuffix: true }), formatDuration({ hours: 2, minutes: 5 }),
  getISOWeek(start), isWeekend(start), differenceInCalendarDays(parseISO('2024-12-25'), start), differenceInMonths(parseISO('2025-03-30'), start), eachDayOfInterval({ start, end: addDays(start, 3) }).map((d) => format(d, 'MM/dd')),
  intervalToDuration({ start, end: parseISO('2025-03-04T00:00:00Z') }), formatISO(parse('15 March 2023 07:08', 'd MMMM yyyy HH:mm', new Date(0))), formatISO(sub(start, { months: 2, days: 3 })), [start, new Date(0)].sort(compareAsc).map((d) => +d),
];
