"""Shards are spread evenly over partitions, by keys that Spark hashes as we think it does."""

from collections import Counter

import pytest

from anabranch.microbatch.exchange.partition_keys import find_keys, find_numbers, hash_int


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 16, 64])
def test_each_shard_has_a_key_of_its_own(shards):
    keys = find_keys(shards)
    assert len(set(keys)) == shards
    assert [find_numbers(shards)[key] for key in keys] == list(range(shards))


@pytest.mark.parametrize("partitions", [1, 2, 4, 8, 16])
def test_partitions_get_equal_shares_of_the_shards(partitions):
    shares = Counter(hash_int(key) % partitions for key in find_keys(16))
    assert set(shares.values()) == {16 // partitions}


@pytest.mark.spark
def test_the_hash_is_the_one_that_spark_has(spark):
    numbers = [0, 1, 2, 41, 1 << 30, (1 << 31) - 1, -1, -(1 << 31)]
    frame = spark.createDataFrame([(number,) for number in numbers], "number int")
    found = [row[0] for row in frame.selectExpr("hash(number)").collect()]
    assert found == [hash_int(number) for number in numbers]
