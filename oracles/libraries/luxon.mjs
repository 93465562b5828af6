// script
import { DateTime } from 'luxon';

export default [DateTime.fromISO('2024-01-31T10:20:30Z', { zone: 'utc' }).plus({ months: 1 }).toISO()];
