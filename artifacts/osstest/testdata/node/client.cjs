// Drives the stand-in through OSS's Node.js client and prints one line of JSON
// per check. What is expected is in node_test.go.
'use strict';
const OSS = require('ali-oss');

const at = JSON.parse(process.env.STAND_IN);

// The client sees an address instead of a name and puts the bucket into the
// Host header and nowhere else.
function dial(change) {
  return new OSS(Object.assign({
    endpoint: at.endpoint, region: 'oss-cn-hangzhou', bucket: 'room', authorizationV4: at.v4,
    accessKeyId: at.id, accessKeySecret: at.secret, stsToken: at.token, retryMax: 0,
  }, change));
}
const client = dial({});

const fault = (e) => (e.status ? `${e.status} ${e.code || ''}`.trim() : String(e));

async function check(name, run) {
  let got;
  try {
    got = await run();
  } catch (e) {
    got = fault(e);
  }
  console.log(JSON.stringify({ check: name, got: got === undefined ? 'ok' : got }));
}

const done = () => 'ok';
const body = (key, more) => client.get(key, more).then((r) => r.content.toString());
const put = (key, text, more) => client.put(key, Buffer.from(text), more);
const header = (r, name) => r.res.headers[name];
const names = (list) => (list || []).map((o) => o.name).join(' ');
const oddKey = 'a/ü 1+%?#~*!\'()&=.txt';

async function buckets() {
  await check('create a bucket', () => client.putBucket('room').then((r) => r.bucket));
  await check('create it again', () => client.putBucket('room').then(done));
  await check('describe it', () => client.getBucketInfo('room').then((r) => [r.bucket.Name, r.bucket.StorageClass]));
  await check('a bucket that is not there', () => client.getBucketInfo('nowhere'));
}

async function objects() {
  await check('put', () => put(oddKey, 'hello', {
    meta: { owner: 'me', digest: 'ab cd' }, mime: 'text/plain', headers: { 'x-oss-tagging': 'class=input&k=a%20b', 'x-oss-server-side-encryption': 'AES256', 'Cache-Control': 'no-store' },
  }).then((r) => [r.res.status, header(r, 'etag'), header(r, 'x-oss-hash-crc64ecma')]));
  await check('get', () => body(oddKey));
  await check('head', () => client.head(oddKey).then((r) => [r.meta, header(r, 'content-type'), header(r, 'content-length'), header(r, 'cache-control'), header(r, 'x-oss-server-side-encryption'), header(r, 'x-oss-tagging-count')]));
  await check('head of the little meta', () => client.getObjectMeta(oddKey).then((r) => [r.status, header(r, 'content-length')]));
  await check('a put that would overwrite', () => put(oddKey, 'other', { headers: { 'x-oss-forbid-overwrite': 'true' } }));
  await check('a get of nothing', () => client.get('nope'));
  await check('a head of nothing', () => client.head('nope'));
  await check('a range', () => client.get(oddKey, { headers: { Range: 'bytes=1-3' } }).then((r) => [r.res.status, r.content.toString(), header(r, 'content-range')]));
  await check('a range over the end', () => body(oddKey, { headers: { Range: 'bytes=2-99', 'x-oss-range-behavior': 'standard' } }));
  await check('a get of what did not change', async () => {
    const etag = header(await client.head(oddKey), 'etag');
    return client.head(oddKey, { headers: { 'If-None-Match': etag } }).then((r) => r.status);
  });
  await check('a get of another state', () => client.get(oddKey, { headers: { 'If-Match': '"0"' } }));
  await check('tags', async () => {
    const first = (await client.getObjectTagging(oddKey)).tag;
    await client.putObjectTagging(oddKey, { class: 'output' });
    const second = (await client.getObjectTagging(oddKey)).tag;
    await client.deleteObjectTagging(oddKey);
    return [first, second, (await client.getObjectTagging(oddKey)).tag];
  });
  await check('delete', async () => {
    await put('gone', 'x');
    await client.delete('gone');
    return client.get('gone');
  });
}

async function copies() {
  await check('copy', async () => {
    const r = await client.copy('copy', oddKey);
    return [r.data.etag, await body('copy'), (await client.head('copy')).meta.owner];
  });
  await check('copy with other meta', async () => {
    await client.copy('copy', oddKey, { meta: { owner: 'you' }, headers: { 'Content-Type': 'text/css' } });
    const r = await client.head('copy');
    return [r.meta, header(r, 'content-type')];
  });
  await check('copy from a bucket by name', () => client.copy('copy', '/room/copy').then((r) => r.res.status));
  await check('copy under a condition', async () => {
    const etag = header(await client.head(oddKey), 'etag');
    return [(await client.copy('copy', oddKey, { headers: { 'If-Match': etag } })).res.status, (await client.copy('copy', oddKey, { headers: { 'If-None-Match': etag } })).res.status];
  });
  await check('copy of another state', () => client.copy('copy', oddKey, { headers: { 'If-Match': '"0"' } }));
  await check('copy of nothing', () => client.copy('copy', 'nope'));
  await check('set meta', async () => {
    await client.putMeta('copy', { attempt: '2' });
    return (await client.head('copy')).meta;
  });
}

async function listings() {
  await check('list', async () => {
    for (const k of ['l/1', 'l/2', 'l/3', 'l/d/4']) await put(k, k);
    const pages = [];
    let marker;
    do {
      const r = await client.list(Object.assign({ prefix: 'l/', delimiter: '/', 'max-keys': 2 }, marker && { marker }));
      pages.push([names(r.objects), (r.prefixes || []).join(' ')].join(';'));
      marker = r.isTruncated && r.nextMarker;
    } while (marker);
    return pages;
  });
  await check('list, second version', async () => {
    const pages = [];
    let token;
    do {
      const r = await client.listV2({ prefix: 'l/', 'max-keys': '3', 'continuation-token': token });
      pages.push(`${names(r.objects)};${r.keyCount}`);
      token = r.isTruncated && r.nextContinuationToken;
    } while (token);
    return pages;
  });
  await check('delete several', async () => {
    const r = await client.deleteMulti(['l/1', 'l/2', 'l/none', oddKey]);
    return [r.deleted.map((d) => d.Key), names((await client.listV2({ prefix: 'l/' })).objects)];
  });
  await check('delete several quietly', () => client.deleteMulti(['l/3', 'l/d/4', 'copy'], { quiet: true }).then((r) => r.deleted));
}

async function versions() {
  await check('versioning', async () => {
    const before = (await client.getBucketVersioning('room')).versionStatus || 'unset';
    await client.putBucketVersioning('room', 'Enabled');
    return [before, (await client.getBucketVersioning('room')).versionStatus];
  });
  const ids = [];
  await check('several versions', async () => {
    for (const text of ['one', 'two']) ids.push(header(await put('v', text), 'x-oss-version-id'));
    return [await body('v'), await body('v', { versionId: ids[0] }), ids[0] < ids[1]];
  });
  await check('an old version on top', async () => {
    const r = await client.copy('v', 'v', { versionId: ids[0] });
    return [await body('v'), header(r, 'x-oss-copy-source-version-id') === ids[0]];
  });
  await check('a delete marker', async () => {
    const r = await client.delete('v');
    ids.push(header(r, 'x-oss-version-id'));
    return header(r, 'x-oss-delete-marker');
  });
  await check('a get behind the marker', () => client.get('v'));
  await check('list versions', async () => {
    const r = await client.getBucketVersions({ prefix: 'v' });
    return [r.objects.length, r.deleteMarker.length, r.objects.map((o) => o.isLatest), r.deleteMarker[0].versionId === ids[2]];
  });
  await check('delete versions', async () => {
    await client.deleteMulti([{ key: 'v', versionId: ids[2] }, { key: 'v', versionId: ids[1] }]);
    return [await body('v'), (await client.getBucketVersions({ prefix: 'v' })).objects.length];
  });
  await check('suspended', async () => {
    await client.putBucketVersioning('room', 'Suspended');
    return header(await put('v', 'three'), 'x-oss-version-id');
  });
}

async function settings() {
  await check('no lifecycle', () => client.getBucketLifecycle('room'));
  await check('lifecycle', async () => {
    await client.putBucketLifecycle('room', [
      { id: 'input', prefix: 'tasks/', status: 'Enabled', tag: { key: 'class', value: 'input' }, expiration: { days: 30 }, noncurrentVersionExpiration: { noncurrentDays: 7 } },
      { prefix: 'parts/', status: 'Disabled', abortMultipartUpload: { days: 3 } },
    ]);
    const { rules } = await client.getBucketLifecycle('room');
    const id = rules[1].id;
    delete rules[1].id;
    return [rules, !!id];
  });
  await check('overlapping rules', () => client.putBucketLifecycle('room', [
    { prefix: '', status: 'Enabled', expiration: { expiredObjectDeleteMarker: 'true' } }, { prefix: 'a/', status: 'Enabled', expiration: { days: 1 } },
  ]));
  await check('no encryption', () => client.getBucketEncryption('room'));
  await check('encryption', async () => {
    await client.putBucketEncryption('room', { SSEAlgorithm: 'KMS', KMSMasterKeyID: 'key-1' });
    const { encryption } = await client.getBucketEncryption('room');
    const r = await put('sse', 'x');
    await client.deleteBucketEncryption('room');
    return [encryption, header(r, 'x-oss-server-side-encryption'), header(r, 'x-oss-server-side-encryption-key-id')];
  });
}

async function credentials() {
  const list = (c) => c.list({ 'max-keys': 1 }).then((r) => r.res.status);
  await check('an STS token', () => list(client));
  await check('a wrong secret', () => list(dial({ accessKeySecret: at.secret + 'x' })));
  await check('an unknown key', () => list(dial({ accessKeyId: 'nobody' })));
  await check('a wrong token', () => list(dial({ stsToken: 'other' })));
  await check('no token', () => list(dial({ stsToken: undefined })));
  await check('a bucket that is not empty', () => client.deleteBucket('room'));
  await check('an empty bucket', async () => {
    const r = await client.getBucketVersions({});
    await client.deleteMulti(r.objects.concat(r.deleteMarker).map((o) => ({ key: o.name, versionId: o.versionId })));
    return client.deleteBucket('room').then((d) => d.res.status);
  });
}

buckets().then(objects).then(copies).then(listings).then(versions).then(settings).then(credentials);
