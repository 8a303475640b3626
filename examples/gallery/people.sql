-- 5,000 rows, an index, a join with groups: in memory, so that nothing is left on the disk.
create table person (id integer primary key, name text, city integer, born integer);
create table city (id integer primary key, name text);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100)
  insert into city select i, printf('city %03d', i * 37 % 101) from n;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
  insert into person select i, printf('name %05d', i * 7919 % 5003), i * 31 % 100 + 1, 1920 + i * 17 % 100 from n;
commit;
create index born on person (born);
select city.name, count(*), min(person.name), avg(2000 - born)
  from person join city on city.id = person.city
  where born between 1950 and 1980 group by city.name order by 2 desc, 1 limit 5;
