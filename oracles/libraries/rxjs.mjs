import { EMPTY, Subject, concatMap, catchError, combineLatest, defer, filter, from, groupBy, lastValueFrom, map, mergeMap, of, pairwise, reduce, retry, scan, share, switchMap, take, takeUntil, throwError, toArray, zip, bufferCount, distinctUntilChanged, BehaviorSubject } from 'rxjs';

const values = (o) => lastValueFrom(o.pipe(toArray()));
const subject = new Subject(), stop = new Subject(), seen = [];
subject.pipe(scan((a, x) => a + x, 0), takeUntil(stop)).subscribe({ next: (x) => seen.push(x), complete: () => seen.push('done') });
[1, 2, 3].forEach((x) => subject.next(x));
stop.next();
subject.next(99);
let tries = 0;
const state = new BehaviorSubject(1), states = [];
state.pipe(distinctUntilChanged(), share()).subscribe((x) => states.push(x));
[1, 2, 2, 3].forEach((x) => state.next(x));
export default [seen, states, await values(from([1, 2, 3, 4]).pipe(filter((x) => x % 2 === 0), map((x) => x * 10))), await values(of('a', 'b').pipe(concatMap((x) => from([x + 1, x + 2])))), await values(from([1, 1, 2, 3]).pipe(groupBy((x) => x % 2), mergeMap((g) => g.pipe(reduce((a, x) => a + x, 0))))), await values(zip(of(1, 2), from('ab'))), await values(defer(() => (++tries < 3 ? throwError(() => new Error('x')) : of('ok ' + tries))).pipe(retry(5))), await values(throwError(() => new Error('bad')).pipe(catchError((e) => of(e.message)))), await values(combineLatest([of(1, 2), of('x')])), await values(from([1, 2, 3, 4, 5]).pipe(bufferCount(2))), await values(from([1, 4, 9]).pipe(pairwise(), map(([a, b]) => b - a))), await values(from(Promise.resolve(5)).pipe(switchMap((x) => of(x, x + 1)), take(1))), await values(EMPTY)];
