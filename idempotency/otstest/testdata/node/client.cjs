// Drives the stand-in through Tablestore's Node.js client and prints one line
// of JSON per check. What is expected is in node_test.go.
'use strict';
const TableStore = require('tablestore');

const at = JSON.parse(process.env.STAND_IN);
const { Condition, RowExistenceExpectation, SingleColumnCondition, CompositeCondition, ComparatorType, LogicalOperator } = TableStore;
const { IGNORE, EXPECT_EXIST, EXPECT_NOT_EXIST } = RowExistenceExpectation;
const long = (n) => TableStore.Long.fromNumber(n);

function dial(change) {
  const c = { endpoint: at.endpoint, instancename: at.instance, accessKeyId: at.id, secretAccessKey: at.secret, stsToken: at.token, maxRetries: 0 };
  return new TableStore.Client(Object.assign(c, change));
}
const client = dial({});

// plain makes the client's values comparable.
function plain(v) {
  if (Buffer.isBuffer(v)) return 'bytes ' + v.toString('hex');
  if (v && typeof v.toNumber === 'function') return v.toNumber();
  return v;
}
const columns = (list) => (list || []).map((c) => [c.columnName, plain(c.columnValue)]);
const key = (list) => (list || []).map((c) => plain(c.value));
const row = (r) => ({ key: key(r.primaryKey), columns: columns(r.attributes) });

// fault is what the client makes of an error: the status as its code, and the
// service's code somewhere in the text.
const fault = (e) => `${e.code} ${(/OTS[A-Za-z]+/.exec(e.message) || [e.message])[0]}`;

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
const where = (expect, column) => new Condition(expect, column || null);
const equal = (column, value) => new SingleColumnCondition(column, value, ComparatorType.EQUAL, false);
const put = (k, expect, attributeColumns, more) => client.putRow(Object.assign({ tableName: 'claims', condition: where(expect), primaryKey: [{ k }], attributeColumns }, more));
const update = (k, condition, updateOfAttributeColumns, more) => client.updateRow(Object.assign({ tableName: 'claims', condition, primaryKey: [{ k }], updateOfAttributeColumns }, more));
const get = (k, more) => client.getRow(Object.assign({ tableName: 'claims', primaryKey: [{ k }] }, more)).then((d) => row(d.row));

function table(tableName, primaryKey, maxVersions) {
  return { tableMeta: { tableName, primaryKey }, reservedThroughput: { capacityUnit: { read: 0, write: 0 } }, tableOptions: { timeToLive: -1, maxVersions } };
}

async function range(direction, from, to, more) {
  const pages = [];
  let start = [{ k: from }];
  while (start) {
    const d = await client.getRange(Object.assign({
      tableName: 'claims', direction, inclusiveStartPrimaryKey: start, exclusiveEndPrimaryKey: [{ k: to }], limit: 2,
    }, more));
    pages.push(d.rows.map((r) => key(r.primaryKey)[0]).join(' '));
    start = d.nextStartPrimaryKey && [{ k: d.nextStartPrimaryKey[0].value }];
  }
  return pages.join(' | ');
}

async function tables() {
  await check('create a table', () => client.createTable(table('claims', [{ name: 'k', type: 'STRING' }], 2)).then(done));
  await check('create it again', () => client.createTable(table('claims', [{ name: 'k', type: 'STRING' }], 2)).then(done));
  await check('describe it', async () => {
    const d = await client.describeTable({ tableName: 'claims' });
    return { key: d.tableMeta.primaryKey.map((p) => [p.name, p.type]), ttl: d.tableOptions.timeToLive, versions: d.tableOptions.maxVersions };
  });
  await check('update it', async () => {
    await client.updateTable({ tableName: 'claims', tableOptions: { timeToLive: 86400, maxVersions: 3, maxTimeDeviation: 3600 } });
    const d = await client.describeTable({ tableName: 'claims' });
    return [d.tableOptions.timeToLive, d.tableOptions.maxVersions, plain(d.tableOptions.deviationCellVersionInSec)].map(Number);
  });
  await check('an unknown table', () => client.describeTable({ tableName: 'nowhere' }));
}

async function rows() {
  await check('put a row that must be absent', () => put('a', EXPECT_NOT_EXIST, [{ s: 'text é' }, { i: long(-7) }, { f: 2.5 }, { t: true }, { b: Buffer.from([0, 255]) }]).then(done));
  await check('put it again', () => put('a', EXPECT_NOT_EXIST, [{ s: 'other' }]).then(done));
  await check('get it', () => get('a'));
  await check('get some columns of it', () => get('a', { columnsToGet: ['i', 't'] }));
  await check('get a page of its columns', () => get('a', { columnFilter: new TableStore.ColumnPaginationFilter(1, 2) }));
  await check('get it through a filter', () => get('a', { columnFilter: equal('s', 'other') }));
  await check('get an absent row', () => get('none'));
  await check('update under a condition that holds', () => update('a', where(EXPECT_EXIST, equal('i', long(-7))), [{ PUT: [{ s: 'new' }] }, { DELETE_ALL: ['f', 't'] }]).then(done));
  await check('update under one that does not', () => update('a', where(EXPECT_EXIST, equal('i', long(1))), [{ PUT: [{ s: 'lost' }] }]).then(done));
  await check('update under both of two', () => {
    const both = new CompositeCondition(LogicalOperator.AND);
    both.addSubCondition(equal('i', long(-7)));
    both.addSubCondition(equal('s', 'new'));
    return update('a', where(IGNORE, both), [{ PUT: [{ s: 'newer' }] }]).then(done);
  });
  await check('update under neither of two', () => {
    const either = new CompositeCondition(LogicalOperator.OR);
    either.addSubCondition(equal('i', long(0)));
    either.addSubCondition(equal('s', 'new'));
    return update('a', where(IGNORE, either), [{ PUT: [{ s: 'lost' }] }]).then(done);
  });
  await check('the versions that are left', () => get('a', { maxVersions: 9, columnsToGet: ['s'] }));
  await check('increments', async () => {
    const sums = [];
    for (const n of [5, -2]) {
      const d = await update('counter', where(IGNORE), [{ INCREMENT: [{ n: long(n) }] }], { returnContent: { returnColumns: ['n'], returnType: TableStore.ReturnType.AfterModify } });
      sums.push(...columns(d.row.attributes));
    }
    return sums;
  });
  await check('a put that returns its key', () => put('key', IGNORE, [], { returnContent: { returnType: TableStore.ReturnType.Primarykey } }).then((d) => row(d.row)));
  await check('delete', async () => {
    await client.deleteRow({ tableName: 'claims', condition: where(EXPECT_EXIST), primaryKey: [{ k: 'key' }] });
    return get('key');
  });
  await check('delete it again', () => client.deleteRow({ tableName: 'claims', condition: where(EXPECT_EXIST), primaryKey: [{ k: 'key' }] }));
}

async function many() {
  await check('a batch that fails in part', async () => {
    const rowOf = (k, expect) => ({ type: 'PUT', condition: where(expect), primaryKey: [{ k }], attributeColumns: [{ s: 'batch' }], returnContent: { returnType: 1 } });
    const d = await client.batchWriteRow({ tables: [{ tableName: 'claims', rows: [rowOf('b', EXPECT_NOT_EXIST), rowOf('a', EXPECT_NOT_EXIST), rowOf('c', EXPECT_NOT_EXIST),
      { type: 'UPDATE', condition: where(EXPECT_EXIST), primaryKey: [{ k: 'd' }], attributeColumns: [{ PUT: [{ s: '1' }] }] },
      { type: 'DELETE', condition: where(IGNORE), primaryKey: [{ k: 'e' }] }] }] });
    return d.tables.map((r) => (r.isOk ? key(r.primaryKey).join() || 'ok' : r.errorCode));
  });
  await check('a batch that guards a row twice', () => client.batchWriteRow({ tables: [{ tableName: 'claims', rows: [1, 2].map(() => (
    { type: 'PUT', condition: where(EXPECT_NOT_EXIST), primaryKey: [{ k: 'z' }], attributeColumns: [] })) }] }));
  await check('a batch of reads', async () => {
    const d = await client.batchGetRow({ tables: [{ tableName: 'claims', primaryKey: [[{ k: 'b' }], [{ k: 'none' }], [{ k: 'a' }]], columnsToGet: ['s'] }] });
    return d.tables[0].map((r) => columns(r.attributes));
  });
  await check('a range in pages', () => range('FORWARD', TableStore.INF_MIN, TableStore.INF_MAX));
  await check('a range backwards', () => range('BACKWARD', 'counter', 'a'));
  await check('a range through a filter', () => range('FORWARD', TableStore.INF_MIN, TableStore.INF_MAX, { columnFilter: equal('s', 'batch') }));
  await check('a range the wrong way round', () => range('FORWARD', 'z', 'a'));
  await check('auto-increment keys', async () => {
    await client.createTable(table('log', [{ name: 'k', type: 'STRING' }, { name: 'n', type: 'INTEGER', option: 'AUTO_INCREMENT' }], 1));
    const numbers = [];
    for (let i = 0; i < 3; i++) {
      const d = await client.putRow({ tableName: 'log', condition: where(IGNORE), primaryKey: [{ k: 'x' }, { n: TableStore.PK_AUTO_INCR }], attributeColumns: [{ i: long(i) }], returnContent: { returnType: 1 } });
      numbers.push(d.row.primaryKey[1].value);
    }
    const d = await client.getRow({ tableName: 'log', primaryKey: [{ k: 'x' }, { n: numbers[1] }] });
    return { rising: numbers[0] < numbers[1] && numbers[1] < numbers[2], second: columns(d.row.attributes) };
  });
}

async function credentials() {
  const list = (c) => c.listTable({}).then((d) => d.tableNames);
  await check('an STS token', () => list(client));
  await check('a wrong secret', () => list(dial({ secretAccessKey: at.secret + 'x' })));
  await check('an unknown key', () => list(dial({ accessKeyId: 'nobody' })));
  await check('a wrong token', () => list(dial({ stsToken: 'other' })));
  await check('no token', () => list(dial({ stsToken: undefined })));
  await check('another instance', () => list(dial({ instancename: 'other' })));
  await check('delete the tables', async () => {
    await client.deleteTable({ tableName: 'claims' });
    await client.deleteTable({ tableName: 'log' });
    return list(client);
  });
}

tables().then(rows).then(many).then(credentials);
