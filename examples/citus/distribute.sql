-- Once, after the first `millrace migrate`, as the owner of the tables. Both tables by domain, so that a month's rows and their history are on one node.
select create_distributed_table('data.keywords_v1', 'domain', shard_count => 32);
select create_distributed_table('data.keywords_v1_history', 'domain', colocate_with => 'data.keywords_v1');
