import semver from 'semver';

const vs = ['1.2.3', '1.10.0', '1.2.3-beta.2', '2.0.0-rc.1', '0.9.9', '1.2.3-beta.10'];
export default [vs.toSorted(semver.compare), vs.filter((v) => semver.satisfies(v, '^1.2.0')), semver.maxSatisfying(vs, '<2'), semver.inc('1.2.3', 'minor'), semver.inc('1.2.3-a.1', 'prerelease'), semver.diff('1.2.3', '1.3.0'), semver.coerce('v4.6.3.9-x').version, semver.valid('a.b'), new semver.Range('>=1.2 <3 || 5.x').range, semver.gt('10.0.0', '9.9.9'), semver.intersects('^1.0.0', '~1.5.0'), semver.parse('1.2.3-x.7+b').prerelease];
